"""A report of waits as a self-contained HTML page: the table, and a timeline of threads and streams."""

import html
import json

from rustdev_conformance.page import document, table

from ._name import NAME
from .profiler import Task
from .waits import Wait, WaitReport, _bytes, _Span, _summary

#: Maximum number of bars for waits, and for tasks, in a page; more would make browsers slow.
_LIMIT = 50_000

_STYLE = """
canvas { width: 100%; display: block; cursor: grab; border: 1px solid #ddd; }
#label { min-height: 1.5em; }
"""

#: The timeline: a lane for each thread and stream. The wheel zooms, dragging pans, a double click shows everything.
_SCRIPT = """
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("timeline"), label = document.getElementById("label");
const context = canvas.getContext("2d");
const LEFT = 170, LANE = 26, TOP = 24;
const COLORS = {item: "#d62728", result: "#ff7f0e", print: "#e377c2", copy: "#9467bd", fallback: "#8c564b",
                device: "#bcbd22", stream: "#bcbd22", event: "#17becf", task: "#4c78a8"};
let begin = 0, end = Math.max(data.end, 1), drag = null;

const width = () => canvas.clientWidth;
const at = time => LEFT + (time - begin) / (end - begin) * (width() - LEFT);
const time = x => begin + (x - LEFT) / (width() - LEFT) * (end - begin);
const text = us => us >= 1e6 ? (us / 1e6).toFixed(4) + " s" : us >= 1e3 ? (us / 1e3).toFixed(3) + " ms" : us.toFixed(1) + " us";

function draw() {
  const ratio = window.devicePixelRatio || 1, height = TOP + data.lanes.length * LANE + 4;
  canvas.style.height = height + "px";
  canvas.width = width() * ratio;
  canvas.height = height * ratio;
  context.scale(ratio, ratio);
  context.font = "12px system-ui, sans-serif";
  for (let tick = 0; tick <= 8; tick++) {
    const moment = begin + (end - begin) * tick / 8, x = at(moment);
    context.fillStyle = "#eee";
    context.fillRect(x, TOP, 1, height);
    context.fillStyle = "#666";
    context.textAlign = tick == 8 ? "right" : "left";
    context.fillText(text(moment), x, 14);
  }
  context.textAlign = "left";
  data.lanes.forEach((lane, row) => {
    const y = TOP + row * LANE;
    for (const [from, length, name] of lane.bars) {
      if (from + length < begin || from > end) continue;
      const left = Math.max(at(from), LEFT), right = Math.min(at(from + length), width());
      context.fillStyle = COLORS[data.names[name][0]];
      context.fillRect(left, y + 3, Math.max(right - left, 1), LANE - 6);
    }
    context.fillStyle = "#222";
    context.fillText(lane.name, 4, y + LANE / 2 + 4, LEFT - 10);
  });
}

function find(x, y) {
  const lane = data.lanes[Math.floor((y - TOP) / LANE)];
  const slack = (end - begin) / (width() - LEFT);
  return x < LEFT || !lane ? null : lane.bars.find(bar => bar[0] - slack <= time(x) && time(x) <= bar[0] + bar[1] + slack);
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const factor = event.deltaY > 0 ? 1.25 : 0.8, middle = time(Math.max(event.offsetX, LEFT));
  begin = Math.max(middle - (middle - begin) * factor, 0);
  end = Math.min(middle + (end - middle) * factor, data.end);
  draw();
}, {passive: false});
canvas.addEventListener("mousedown", event => { drag = event.offsetX; });
window.addEventListener("mouseup", () => { drag = null; });
canvas.addEventListener("dblclick", () => { begin = 0; end = Math.max(data.end, 1); draw(); });
canvas.addEventListener("mousemove", event => {
  if (drag !== null) {
    const span = end - begin, moved = time(drag) - time(event.offsetX);
    begin = Math.min(Math.max(begin + moved, 0), data.end - span);
    end = begin + span;
    drag = event.offsetX;
    draw();
  }
  const bar = find(event.offsetX, event.offsetY);
  label.textContent = bar ? data.names[bar[2]][1] + ": " + text(bar[1]) + " from " + text(bar[0]) : "";
});
window.addEventListener("resize", draw);
draw();
"""


class _Timeline:
    """Lanes of bars, in microseconds since the beginning of the report.

    Args:
        origin: Beginning of the report, in nanoseconds since the epoch.
    """

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._lanes: dict[str, list[tuple[float, float, int]]] = {}
        self._names: dict[tuple[str, str], int] = {}
        self._end = 0.0

    def add(self, lane: str, kind: str, name: str, begin: int, end: int) -> None:
        """Add a bar to a lane; times are nanoseconds since the epoch."""
        number = self._names.setdefault((kind, name), len(self._names))
        bar = ((begin - self._origin) / 1e3, (end - begin) / 1e3, number)
        self._lanes.setdefault(lane, []).append(bar)
        self._end = max(self._end, bar[0] + bar[1])

    def text(self) -> str:
        """Return the timeline as JSON that is safe inside a script element."""
        lanes = [{"name": name, "bars": bars} for name, bars in self._lanes.items()]
        return json.dumps({"end": self._end, "names": list(self._names), "lanes": lanes}).replace("<", "\\u003c")


def _cells(wait: Wait) -> list[str]:
    texts = (wait.source and f"<code>{html.escape(wait.source)}</code>", wait.library and html.escape(f"in {wait.library}"))
    where = "".join(f'<br><span class="small">{text}</span>' for text in texts if text)
    copied = _bytes(wait.bytes) if wait.kind == "copy" else ""
    numbers = (f"{wait.seconds:.4f}", str(wait.count), str(wait.idle), copied)
    return [*numbers, html.escape(wait.name), f"<code>{html.escape(wait.where)}</code>{where}", html.escape(wait.advice)]


def _html_table(waits: list[Wait]) -> str:
    return table(("seconds", "count", "idle", "bytes", "what", "where", "advice"), map(_cells, waits), range(4))


def _timeline(report: WaitReport, spans: list[_Span], tasks: list[Task]) -> _Timeline:
    timeline = _Timeline(report._begin)
    for span in spans:
        lane = report._threads.get(span.thread, f"thread {span.thread}")
        timeline.add(lane, span.wait.kind, span.wait.title, span.begin, span.end)
    for task in tasks:
        timeline.add(f"{NAME}:{task.device} stream {task.stream}", "task", task.name, *task.run)
    return timeline


def _notes(report: WaitReport, spans: list[_Span], tasks: list[Task]) -> list[str]:
    """Return notes on what the timeline lacks."""
    notes = []
    count = sum(wait.count for wait in report.waits)
    if count > len(spans[:_LIMIT]):
        notes.append(f"The timeline has the first {len(spans[:_LIMIT])} of {count} waits.")
    if report.tasks is None:
        notes.append("The streams' work was not recorded.")
    elif len(tasks) > _LIMIT:
        notes.append(f"The timeline has the first {_LIMIT} of {len(tasks)} tasks.")
    return notes


def _page(report: WaitReport) -> str:
    """Return the HTML of the page."""
    waits, quiet = report.waits, [copy for copy in report.copies if not copy.blocking]
    spans = report._spans()
    tasks = [task for task in report.tasks or [] if task.run != (0, 0)]
    timeline = _timeline(report, spans[:_LIMIT], tasks[:_LIMIT])
    parts = [f"<p>{html.escape(_summary(waits, report.seconds))}</p>"]
    if waits:
        parts.append(_html_table(waits))
    if quiet:
        parts.append(f"<h2>Copies that the host did not wait for</h2>{_html_table(quiet)}")
    parts += [
        "<h2>Timeline</h2>",
        '<p class="small">Waits of threads and tasks of streams. The wheel zooms, dragging moves; a double click shows all.</p>',
        *(f'<p class="small">{note}</p>' for note in _notes(report, spans, tasks)),
        '<canvas id="timeline"></canvas>',
        '<p id="label"></p>',
        f'<script type="application/json" id="data">{timeline.text()}</script>',
        f"<script>{_SCRIPT}</script>",
    ]
    return document("Waits of the host", parts, _STYLE)
