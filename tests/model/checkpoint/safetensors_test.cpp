int hydrascope_placeholder_safetensors_test();
