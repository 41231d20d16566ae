// A small line chart as SVG: x axis in steps, y axis from zero, one line per series. Readable without colour: every
// line has its own dashes and its name at its end.

type Series = { name: string; values: readonly number[] };
export type Chart = { title: string; x: string; y: string; steps: readonly number[]; series: readonly Series[] };

const WIDTH = 720;
const HEIGHT = 360;
const LEFT = 70;
const RIGHT = 170;
const TOP = 44;
const BOTTOM = 52;
const COLOURS = ["#0b5fff", "#b3261e", "#1b7f3b", "#7a3ea8"];
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];
const LABEL_GAP = 14;

/** The next round number above, for the end of the axis. */
function ceilingOf(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return ([1, 2, 2.5, 5].find((step) => step * power >= value) ?? 10) * power;
}

const escaped = (text: string): string => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
const short = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 1 });

/** Names at the line ends, moved apart where they would overlap. */
function labelPlaces(ends: readonly number[]): number[] {
  const order = ends.map((y, i) => ({ y, i })).toSorted((a, b) => a.y - b.y);
  for (let n = 1; n < order.length; n++) {
    const [above, below] = [order[n - 1], order[n]];
    if (above && below) below.y = Math.max(below.y, above.y + LABEL_GAP);
  }
  return order.toSorted((a, b) => a.i - b.i).map(({ y }) => y);
}

export function svgOf({ title, x, y, steps, series }: Chart): string {
  const top = ceilingOf(Math.max(...series.flatMap(({ values }) => values)));
  const atX = (i: number): number => LEFT + (i * (WIDTH - LEFT - RIGHT)) / Math.max(1, steps.length - 1);
  const atY = (value: number): number => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const text = (at: string, words: string, more = ""): string => `<text ${at} ${more}>${escaped(words)}</text>`;
  const parts = [
    text(`x="${LEFT}" y="22"`, title, 'font-size="15" font-weight="600"'),
    text(`x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 12}"`, x, 'text-anchor="middle"'),
    text(`x="${LEFT}" y="38"`, y, 'fill="#555"'),
  ];
  for (let part = 0; part <= 4; part++) {
    const value = (top * part) / 4;
    const level = atY(value).toFixed(1);
    parts.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${level}" y2="${level}" stroke="#ddd"/>`);
    parts.push(text(`x="${LEFT - 8}" y="${Number(level) + 4}"`, short(value), 'text-anchor="end"'));
  }
  for (const [i, step] of steps.entries())
    parts.push(text(`x="${atX(i).toFixed(1)}" y="${HEIGHT - BOTTOM + 18}"`, short(step), 'text-anchor="middle"'));
  const places = labelPlaces(series.map(({ values }) => atY(values.at(-1) ?? 0)));
  for (const [n, { name, values }] of series.entries()) {
    const colour = COLOURS[n % COLOURS.length];
    const points = values.map((value, i) => `${atX(i).toFixed(1)},${atY(value).toFixed(1)}`).join(" ");
    const dash = DASHES[n % DASHES.length] ?? "";
    parts.push(
      `<polyline points="${points}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`,
    );
    parts.push(text(`x="${WIDTH - RIGHT + 8}" y="${(places[n] ?? 0) + 4}"`, name, `fill="${colour}"`));
  }
  const font = 'font-family="system-ui, sans-serif" font-size="12"';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" ${font} role="img"><title>${escaped(title)}</title><rect width="100%" height="100%" fill="#fff"/>${parts.join("")}</svg>\n`;
}
