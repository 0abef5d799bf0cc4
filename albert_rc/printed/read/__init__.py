"""A printed file of any kind to its lines."""
