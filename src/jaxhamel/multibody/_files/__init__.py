"""URDF and MJCF files: elements, bodies and joints of a file, and the tree made of them."""
