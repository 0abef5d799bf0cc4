"""A run as a folder for the Hugging Face hub, and as ONNX; compared with ours first."""
