"""Export of a run as a folder for the Hugging Face hub, and as ONNX, verified against our model."""
