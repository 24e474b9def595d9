int hydrascope_placeholder_transform_test();
