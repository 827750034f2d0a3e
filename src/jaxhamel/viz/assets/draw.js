// Draws one instant of the scene: ground first, then everything else from far to near.
class Painter {
  constructor(canvas, scene) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.scene = scene;
    this.camera = new Camera();
    this.shells = scene.things.map((thing) => (thing.kind === "sphere" ? new Shell() : null));
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const roles = ["ink", "muted", "line", "reference", "path", "force", "limit", "series1", "series2", "series3", "series4", "series5", "series6", "shell"];
    this.colours = Object.fromEntries(roles.map((role) => [role, style.getPropertyValue("--" + role).trim()]));
    const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
    this.shell = { tint: rgb(this.colours.series1), pale: rgb(this.colours.shell), line: rgb(this.colours.path) };
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.camera.resize(box.width, box.height);
  }

  // `instant` is {i, s}: frame i and the fraction s of the way to frame i + 1.
  paint(instant, options) {
    const { context, camera } = this;
    context.clearRect(0, 0, camera.width, camera.height);
    camera.update();
    this.instant = instant;
    this.poses = this.scene.poses.map((pose) => ({
      m: rotation(nlerp(row(pose.q, 4, instant.i), row(pose.q, 4, instant.j), instant.s)),
      p: this.at(pose.p, 3),
    }));
    if (this.scene.ground !== null) this.ground();
    const list = [];
    this.scene.things.forEach((thing, k) => this[thing.kind](thing, list, k, options));
    list.sort((a, b) => b[0] - a[0]).forEach(([, draw]) => draw());
  }

  at(flat, width) { return lerp(row(flat, width, this.instant.i), row(flat, width, this.instant.j), this.instant.s); }
  placed(thing) {
    const flat = thing.moving ? this.at(thing.data, 3 * thing.count) : thing.data;
    const pose = thing.pose < 0 ? null : this.poses[thing.pose];
    return Array.from({ length: flat.length / 3 }, (_, k) => {
      const p = [flat[3 * k], flat[3 * k + 1], flat[3 * k + 2]];
      return pose ? add(apply(pose.m, p), pose.p) : p;
    });
  }

  line(points, colour, width, alpha = 1, dash = []) {
    const { context, camera } = this, seen = points.map((p) => camera.see(p));
    context.save();
    Object.assign(context, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round", lineCap: dash.length ? "butt" : "round" });
    context.setLineDash(dash);
    context.beginPath();
    for (let k = 0, open = false; k + 1 < seen.length; k++) {
      const cut = camera.clip(seen[k], seen[k + 1]);
      if (!cut) { open = false; continue; }
      if (!open) context.moveTo(...camera.pixel(cut[0]));
      context.lineTo(...camera.pixel(cut[1]));
      open = seen[k + 1][2] >= camera.near;
    }
    context.stroke();
    context.restore();
  }

  disc(centre, radius, colour, alpha) {
    const ring = Array.from({ length: 28 }, (_, k) => add(centre, [radius * Math.cos((k * Math.PI) / 14), radius * Math.sin((k * Math.PI) / 14), 0]));
    const seen = ring.map((p) => this.camera.see(p));
    if (seen.some((c) => c[2] < this.camera.near)) return;
    Object.assign(this.context, { fillStyle: colour, globalAlpha: alpha });
    this.context.beginPath();
    seen.forEach((c) => this.context.lineTo(...this.camera.pixel(c)));
    this.context.fill();
    this.context.globalAlpha = 1;
  }

  // A grid about the target that fades with distance; its spacing is 1, 2 or 5 times a power of ten.
  ground() {
    const { camera } = this, reach = 1.6 * camera.distance, cells = 15;
    const raw = reach / cells, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((k) => k * power >= raw);
    this.gridStep = step;
    const x0 = Math.round(camera.target[0] / step), y0 = Math.round(camera.target[1] / step), z = this.scene.ground;
    for (let i = -cells; i <= cells; i++)
      for (let k = -cells; k < cells; k += 3) {
        const fade = 1 - Math.hypot(i, k + 1.5) / cells;
        if (fade <= 0) continue;
        const major = (n) => (n % 5 === 0 ? 1.5 : 0.8);
        this.line([[(x0 + i) * step, (y0 + k) * step, z], [(x0 + i) * step, (y0 + k + 3) * step, z]], this.colours.line, major(x0 + i), fade);
        this.line([[(x0 + k) * step, (y0 + i) * step, z], [(x0 + k + 3) * step, (y0 + i) * step, z]], this.colours.line, major(y0 + i), fade);
      }
    this.scene.things.forEach((thing) => thing.kind === "sphere" && this.shadow(thing));
  }
  shadow(thing) {
    const p = this.poses[thing.pose].p, low = [p[0], p[1], this.scene.ground];
    for (let share = 1; share > 0.2; share -= 0.06) this.disc(low, share * thing.radius, "#000000", 0.024);
    this.disc(low, 0.045 * thing.radius, this.colours.force, 0.9);
  }

  // Things of each kind. Those that lie on the ground are painted at once, the others enter the list with their depth.
  trail(thing) {
    const all = Array.from({ length: thing.data.length / 3 }, (_, k) => row(thing.data, 3, k));
    const colour = this.colours[thing.role];
    this.line(all, colour, 1, 0.28);
    this.line([...all.slice(0, this.instant.i + 1), this.at(thing.data, 3)], colour, 2.4);
  }
  curve(thing, list) {
    const points = this.placed(thing), colour = this.colours[thing.role];
    if (thing.pose < 0) return this.line(points, colour, thing.width, 0.9, thing.dashed ? [7, 5] : []);
    for (let k = 0; k + 1 < points.length; k++) {
      const pair = [points[k], points[k + 1]];
      list.push([this.camera.see(lerp(...pair, 0.5))[2], () => this.line(pair, colour, thing.width)]);
    }
  }
  triad(thing, list) {
    const { m, p } = this.poses[thing.pose];
    ["series1", "series2", "series3"].forEach((role, k) => {
      const tip = add(p, times(thing.length, [m[k], m[3 + k], m[6 + k]]));
      list.push([this.camera.see(lerp(p, tip, 0.5))[2], () => { this.arrowLine(p, tip, this.colours[role], 2.4); this.name("xyz"[k], tip, this.colours[role]); }]);
    });
  }
  arrow(thing, list, k, options) {
    if (!options.force) return;
    const origin = this.at(thing.origin, 3), tip = add(origin, this.at(thing.vector, 3));
    list.push([this.camera.see(tip)[2] - 1e-6, () => this.arrowLine(origin, tip, this.colours[thing.role], 3)]);
  }
  sphere(thing, list, k) {
    const { m, p } = this.poses[thing.pose], centre = this.camera.see(p), shell = this.shells[k];
    shell.shade(this.camera, centre, thing.radius, m, this.shell);
    list.push([centre[2] + thing.radius, () => shell.draw(this.context, 0)]);
    list.push([centre[2] - thing.radius, () => shell.draw(this.context, 1)]);
  }
  points(thing, list) {
    this.placed(thing).forEach((p, k) => {
      const colour = this.colours[thing.roles[k] || "series" + ((k % 6) + 1)];
      list.push([this.camera.see(p)[2], () => this.ball(p, thing.radius, colour)]);
    });
  }

  ball(p, radius, colour) {
    const { context, camera } = this, c = camera.see(p);
    if (c[2] < camera.near) return;
    const [x, y] = camera.pixel(c), r = Math.max(2.5, (camera.focal * radius) / c[2]);
    const glow = context.createRadialGradient(x - 0.35 * r, y - 0.4 * r, 0.1 * r, x, y, r);
    glow.addColorStop(0, "#ffffff");
    glow.addColorStop(0.35, colour);
    glow.addColorStop(1, colour);
    context.fillStyle = glow;
    context.beginPath();
    context.arc(x, y, r, 0, 2 * Math.PI);
    context.fill();
    Object.assign(context, { strokeStyle: "rgba(0,0,0,0.35)", lineWidth: 1 });
    context.stroke();
  }
  arrowLine(from, to, colour, width) {
    this.line([from, to], colour, width);
    const [a, b] = [this.camera.see(from), this.camera.see(to)];
    if (Math.min(a[2], b[2]) < this.camera.near) return;
    const [p, q] = [this.camera.pixel(a), this.camera.pixel(b)], long = Math.hypot(q[0] - p[0], q[1] - p[1]);
    if (long < 4) return;
    const e = [(q[0] - p[0]) / long, (q[1] - p[1]) / long], h = Math.min(4 * width, 0.5 * long), w = 0.45 * h;
    this.context.fillStyle = colour;
    this.context.beginPath();
    this.context.moveTo(q[0] + 0.4 * h * e[0], q[1] + 0.4 * h * e[1]);
    this.context.lineTo(q[0] - h * e[0] - w * e[1], q[1] - h * e[1] + w * e[0]);
    this.context.lineTo(q[0] - h * e[0] + w * e[1], q[1] - h * e[1] - w * e[0]);
    this.context.fill();
  }
  name(text, p, colour) {
    const c = this.camera.see(p);
    if (c[2] < this.camera.near) return;
    const [x, y] = this.camera.pixel(c);
    Object.assign(this.context, { fillStyle: colour, font: "600 13px system-ui, sans-serif" });
    this.context.fillText(text, x + 7, y - 5);
  }
}
