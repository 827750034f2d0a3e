// Vectors are arrays of three numbers; matrices are nine numbers by rows. The space frame has z up.
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const times = (s, a) => [s * a[0], s * a[1], s * a[2]];
const lerp = (a, b, s) => a.map((x, i) => x + s * (b[i] - x));

// Rotation matrix, body to space, of a quaternion (w, x, y, z); normalised here because data is rounded.
function rotation(q) {
  const n = Math.hypot(...q) || 1;
  const [w, x, y, z] = q.map((c) => c / n);
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
    2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
    2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
  ];
}
const apply = (m, a) => [
  m[0] * a[0] + m[1] * a[1] + m[2] * a[2],
  m[3] * a[0] + m[4] * a[1] + m[5] * a[2],
  m[6] * a[0] + m[7] * a[1] + m[8] * a[2],
];
const row = (flat, width, i) => flat.slice(width * i, width * (i + 1));

// The two quaternions q and -q are one rotation: take the nearer before interpolating.
function nlerp(a, b, s) {
  const sign = a.reduce((sum, x, i) => sum + x * b[i], 0) < 0 ? -1 : 1;
  return a.map((x, i) => x + s * (sign * b[i] - x));
}

// A pinhole camera that looks at a target from azimuth, elevation (radians) and distance.
class Camera {
  constructor() { this.target = [0, 0, 0]; this.azimuth = 0; this.elevation = 0.4; this.distance = 1; }
  resize(width, height) { this.width = width; this.height = height; this.focal = 1.9 * Math.min(height, 0.75 * width); }
  update() {
    const [ca, sa] = [Math.cos(this.azimuth), Math.sin(this.azimuth)];
    const [ce, se] = [Math.cos(this.elevation), Math.sin(this.elevation)];
    this.right = [-sa, ca, 0];
    this.up = [-se * ca, -se * sa, ce];
    this.forward = [-ce * ca, -ce * sa, -se];
    this.eye = sub(this.target, times(this.distance, this.forward));
    this.near = 0.02 * this.distance;
  }
  // Camera coordinates (right, up, depth) of a point in space, and pixels of camera coordinates.
  see(p) { const d = sub(p, this.eye); return [dot(d, this.right), dot(d, this.up), dot(d, this.forward)]; }
  pixel(c) { return [this.width / 2 + (this.focal * c[0]) / c[2], this.height / 2 - (this.focal * c[1]) / c[2]]; }
  // Two points in camera coordinates, cut at the near plane; null when both lie behind it.
  clip(a, b) {
    if (a[2] < this.near && b[2] < this.near) return null;
    const cut = (from, to) => lerp(from, to, (this.near - from[2]) / (to[2] - from[2]));
    return [a[2] < this.near ? cut(a, b) : a, b[2] < this.near ? cut(b, a) : b];
  }
}
