"""An application: the published runs of a real robot."""
