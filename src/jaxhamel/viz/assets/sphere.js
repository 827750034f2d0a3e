// A translucent shell, ray-cast pixel by pixel: octants in two tints and three great circles, so that rolling shows.
const SHELL_PIXELS = 280;

class Shell {
  constructor() {
    this.layers = ["back", "front"].map(() => document.createElement("canvas"));
  }

  // Fills both layers for a sphere with centre in camera coordinates and rotation body to space.
  shade(camera, centre, radius, rotationMatrix, colours) {
    const [x, y, z] = centre;
    const squared = x * x + y * y + z * z - radius * radius;
    if (z < camera.near || squared <= 0) return (this.box = null);
    const extent = (1.08 * camera.focal * radius) / Math.sqrt(Math.max(z * z - radius * radius, 1e-12));
    const middle = camera.pixel(centre);
    this.box = [middle[0] - extent, middle[1] - extent, 2 * extent];
    const size = Math.max(8, Math.min(SHELL_PIXELS, Math.ceil(2 * extent * (window.devicePixelRatio || 1))));
    for (const layer of this.layers) layer.width = layer.height = size;
    const contexts = this.layers.map((layer) => layer.getContext("2d"));
    const images = contexts.map((context) => context.createImageData(size, size));
    const toBody = bodyFromCamera(camera, rotationMatrix);
    const sharpness = (size / 2) / 1.08; // pixels of the layer per radius
    const light = [-0.42, 0.68, -0.6];
    for (let j = 0; j < size; j++) {
      const dy = -(this.box[1] + ((j + 0.5) * this.box[2]) / size - camera.height / 2) / camera.focal;
      for (let i = 0; i < size; i++) {
        const dx = (this.box[0] + ((i + 0.5) * this.box[2]) / size - camera.width / 2) / camera.focal;
        const a = dx * dx + dy * dy + 1, b = dx * x + dy * y + z;
        const discriminant = b * b - a * squared;
        if (discriminant <= 0) continue;
        const root = Math.sqrt(discriminant), at = 4 * (j * size + i);
        const coverage = Math.min(1, (sharpness * discriminant) / (2 * a * radius * radius));
        for (let side = 0; side < 2; side++) {
          const s = (side === 0 ? b + root : b - root) / a;
          const n = [(s * dx - x) / radius, (s * dy - y) / radius, (s - z) / radius];
          paint(images[side].data, at, n, apply(toBody, n), side, coverage, sharpness, light, colours, root / (Math.sqrt(a) * radius));
        }
      }
    }
    contexts.forEach((context, side) => context.putImageData(images[side], 0, 0));
  }

  draw(context, side) {
    if (this.box) context.drawImage(this.layers[side], this.box[0], this.box[1], this.box[2], this.box[2]);
  }
}

// Rows: the body axes in camera coordinates; body normal = rows · camera normal.
function bodyFromCamera(camera, m) {
  const rows = [];
  for (let k = 0; k < 3; k++) {
    const axis = [m[k], m[3 + k], m[6 + k]];
    rows.push(dot(axis, camera.right), dot(axis, camera.up), dot(axis, camera.forward));
  }
  return rows;
}

// One pixel of one side: `facing` is 1 in the middle of the disc and 0 at its limb.
function paint(data, at, n, body, side, coverage, sharpness, light, colours, facing) {
  const front = side === 1;
  const odd = (body[0] > 0) ^ (body[1] > 0) ^ (body[2] > 0);
  const lines = Math.min(Math.abs(body[0]), Math.abs(body[1]), Math.abs(body[2])) * sharpness;
  const line = Math.max(0, Math.min(1, 1.7 - lines));
  const lit = Math.max(0, dot(n, light)) * (front ? 1 : 0.3);
  const shine = front ? Math.pow(lit, 24) : 0;
  const rim = (1 - facing) * (1 - facing);
  const tint = odd ? colours.tint : colours.pale;
  const shade = 0.66 + 0.42 * lit;
  let alpha = front ? (odd ? 0.34 : 0.12) + 0.45 * rim : (odd ? 0.16 : 0.05);
  const lineAlpha = line * (front ? 0.9 : 0.28);
  alpha = alpha + lineAlpha * (1 - alpha);
  const share = alpha > 0 ? lineAlpha / alpha : 0;
  for (let c = 0; c < 3; c++) {
    const base = tint[c] * shade * (1 - share) + colours.line[c] * share;
    data[at + c] = base + (255 - base) * 0.85 * shine;
  }
  data[at + 3] = 255 * Math.min(1, alpha + 0.7 * shine) * coverage;
}
