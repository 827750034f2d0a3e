"""From a motion of any system to what is shown of it: columns, scene, charts, numbers."""
