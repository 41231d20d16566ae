// The names below a chart.
import { expect, it } from "vitest";
import { axisLabels } from "../../../src/web/shared/chart.ts";

it("puts every name into the slot of its bucket, at even steps up to the last", () => {
  for (const count of [1, 2, 7, 12, 24, 30, 168]) {
    for (const width of [240, 640, 1000]) {
      const area = { width, height: 180, left: 48, top: 8, bottom: 24 };
      const names = Array.from({ length: count }, (_, i) => `Nov ${i + 1}, 4:00 AM`);
      const labels = axisLabels(names, area);
      const slot = (width - area.left) / count;
      for (const { index, x } of labels) {
        expect(x).toBeGreaterThanOrEqual(area.left + index * slot);
        expect(x).toBeLessThanOrEqual(area.left + (index + 1) * slot + 1e-6);
      }
      expect(labels.at(-1)?.index).toBe(count - 1);
      const steps = labels.slice(1).map(({ index }, i) => index - (labels[i]?.index ?? 0));
      expect(new Set(steps).size).toBeLessThanOrEqual(1);
    }
  }
});

it("starts no name left of the axis, and names hours at steps that divide a day", () => {
  const area = { width: 1000, height: 180, left: 48, top: 8, bottom: 24 };
  const names = Array.from({ length: 25 }, (_, i) => `Nov ${i + 1}, 4:00 AM`);
  const labels = axisLabels(names, area);
  expect(labels[0]).toMatchObject({ index: 0, x: area.left, anchor: "start" });
  expect(labels.map(({ index }) => index)).toEqual([0, 6, 12, 18, 24]);
});
