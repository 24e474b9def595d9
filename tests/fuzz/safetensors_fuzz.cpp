int hydrascope_placeholder_safetensors_fuzz();
