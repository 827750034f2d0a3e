// Time, buttons, mouse and the cursors of the charts.
const scene = JSON.parse(document.getElementById("scene").textContent);
const find = (id) => document.getElementById(id);
const canvas = find("view"), slider = find("time"), playButton = find("play"), readout = find("readout");
const painter = new Painter(canvas, scene), camera = painter.camera;
const first = scene.ts[0], last = scene.ts[scene.ts.length - 1];
const state = { time: first, playing: false, speed: scene.speed, frames: 0 };
const options = { get force() { return find("force") ? find("force").checked : true; } };
const digits = Math.max(1, Math.min(4, 2 - Math.floor(Math.log10(last - first || 1)) + 1));

// The frame at or before `time`, and the fraction of the way to the next.
function instantAt(time) {
  let low = 0, high = scene.ts.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (scene.ts[middle] <= time) low = middle; else high = middle; }
  if (time >= scene.ts[high]) return { i: high, j: high, s: 0 };
  return { i: low, j: high, s: (time - scene.ts[low]) / (scene.ts[high] - scene.ts[low] || 1) };
}

// Bounds of the whole motion, for the camera that stands still.
function bounds() {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  for (let k = 0; k < scene.focus.length; k++) {
    low[k % 3] = Math.min(low[k % 3], scene.focus[k]);
    high[k % 3] = Math.max(high[k % 3], scene.focus[k]);
  }
  return { middle: lerp(low, high, 0.5), size: Math.hypot(...sub(high, low)) + scene.extent };
}
const whole = bounds();

function resetView() {
  camera.azimuth = (scene.view[0] * Math.PI) / 180;
  camera.elevation = (scene.view[1] * Math.PI) / 180;
  frameView();
}
function frameView() {
  const slim = Math.max(1, (0.75 * camera.height) / camera.width);
  camera.distance = slim * (find("follow").checked ? 2.9 * scene.extent : 1.12 * whole.size);
}

function render() {
  const instant = instantAt(state.time);
  const follow = find("follow").checked;
  const centre = lerp(row(scene.focus, 3, instant.i), row(scene.focus, 3, instant.j), instant.s);
  camera.target = follow ? centre : whole.middle;
  painter.paint(instant, options);
  state.frames += 1;
  state.centre = centre;
  slider.value = String(state.time);
  slider.setAttribute("aria-valuetext", state.time.toFixed(digits) + " seconds");
  readout.textContent = `${state.time.toFixed(digits)} s / ${last.toFixed(digits)} s`;
  if (painter.gridStep) find("scale").textContent = `grid ${painter.gridStep >= 0.1 ? painter.gridStep.toPrecision(1) : painter.gridStep.toExponential(0)} m`;
  moveCursors(instant);
}

function setPlaying(playing) {
  if (playing && state.time >= last) state.time = first;
  state.playing = playing;
  playButton.classList.toggle("playing", playing);
  playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
  if (playing) { state.clock = performance.now(); requestAnimationFrame(tick); }
}
function tick(now) {
  if (!state.playing) return;
  state.time = Math.min(last, state.time + (state.speed * Math.max(0, now - state.clock)) / 1000);
  state.clock = now;
  if (state.time >= last) setPlaying(false);
  render();
  if (state.playing) requestAnimationFrame(tick);
}
function seek(time) { state.time = Math.min(last, Math.max(first, time)); render(); }

// Charts: a line at the present on every time axis, a dot on every path; a click goes to that time.
const cursors = [];
for (const chart of document.querySelectorAll(".chart")) {
  for (const box of JSON.parse(chart.dataset.times)) {
    const line = document.createElement("i");
    line.className = "cursor";
    Object.assign(line.style, { top: `${100 * box.top}%`, height: `${100 * (box.bottom - box.top)}%` });
    chart.append(line);
    cursors.push(() => {
      const share = (state.time - box.t0) / (box.t1 - box.t0 || 1);
      line.style.left = `${100 * (box.left + Math.min(1, Math.max(0, share)) * (box.right - box.left))}%`;
    });
    chart.classList.add("seekable");
    chart.addEventListener("click", (event) => {
      const area = chart.getBoundingClientRect(), share = (event.clientX - area.left) / area.width;
      seek(box.t0 + ((share - box.left) / (box.right - box.left)) * (box.t1 - box.t0));
    });
  }
  for (const box of JSON.parse(chart.dataset.paths)) {
    const trail = scene.things.find((thing) => thing.kind === "trail");
    if (!trail) continue;
    const mark = document.createElement("i");
    mark.className = "dot";
    chart.append(mark);
    cursors.push((instant) => {
      const p = lerp(row(trail.data, 3, instant.i), row(trail.data, 3, instant.j), instant.s);
      const x = (p[0] - box.xlim[0]) / (box.xlim[1] - box.xlim[0]), y = (p[1] - box.ylim[0]) / (box.ylim[1] - box.ylim[0]);
      mark.style.left = `${100 * (box.left + x * (box.right - box.left))}%`;
      mark.style.top = `${100 * (box.bottom - y * (box.bottom - box.top))}%`;
    });
  }
}
function moveCursors(instant) { for (const move of cursors) move(instant); }

// Controls.
Object.assign(slider, { min: first, max: last, step: "any" });
slider.addEventListener("input", () => seek(Number(slider.value)));
playButton.addEventListener("click", () => setPlaying(!state.playing));
find("speed").addEventListener("change", (event) => { state.speed = Number(event.target.value); });
find("follow").addEventListener("change", () => { frameView(); render(); });
if (find("force")) find("force").addEventListener("change", render);
find("reset").addEventListener("click", () => { resetView(); render(); });
const speeds = [...find("speed").options];
find("speed").value = speeds.reduce((a, b) => (Math.abs(Math.log(b.value / scene.speed)) < Math.abs(Math.log(a.value / scene.speed)) ? b : a)).value;
state.speed = Number(find("speed").value);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("button, select, input[type=checkbox], summary, a")) return;
  const step = 0.01 * (last - first), onSlider = event.target === slider;
  const action = {
    " ": () => setPlaying(!state.playing),
    ArrowLeft: onSlider ? null : () => seek(state.time - step),
    ArrowRight: onSlider ? null : () => seek(state.time + step),
    f: () => find("follow").click(),
    r: () => find("reset").click(),
  }[event.key];
  if (action) { event.preventDefault(); action(); }
});

// Mouse and touch: drag to orbit, wheel or pinch to zoom.
const pointers = new Map();
const lowest = scene.ground === null ? -1.5 : 0.03;
const zoom = (factor) => { camera.distance = Math.min(60 * whole.size, Math.max(0.8 * scene.extent, camera.distance * factor)); render(); };
canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, event); });
["pointerup", "pointercancel"].forEach((kind) => canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId)));
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
  const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
  pointers.set(event.pointerId, event);
  if (other) return zoom(apart(before) / apart(event));
  camera.azimuth -= 0.007 * (event.clientX - before.clientX);
  camera.elevation = Math.min(1.55, Math.max(lowest, camera.elevation + 0.007 * (event.clientY - before.clientY)));
  render();
});
canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(0.0012 * event.deltaY)); }, { passive: false });

window.addEventListener("resize", () => { painter.resize(); render(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { painter.readColours(); render(); });
window.jaxhamel = { state, camera, seek, play: () => setPlaying(true), pause: () => setPlaying(false) };
painter.resize();
resetView();
render();
