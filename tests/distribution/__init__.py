"""What users install: bundles, wheels, the image, and the files for operators."""
