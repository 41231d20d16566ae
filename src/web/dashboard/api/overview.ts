// The workspace in numbers, shared by everything that shows a part of it.
import type { RouteOutput } from "../../../client.ts";
import { formatNumber } from "../../shared/format.ts";
import { env } from "../links.ts";
import { POLL_MS, useRead, type Read } from "./query.ts";

export type Overview = RouteOutput<"GET /v1/overview">;

/** Counts end here. */
export const COUNT_MAX = 10_000;
const LEAKS_MAX = 1_000;

const countUpTo =
  (max: number) =>
  (value: number): string =>
    value >= max ? `${formatNumber(max)} or more` : formatNumber(value);

export const count = countUpTo(COUNT_MAX);
export const countLeaks = countUpTo(LEAKS_MAX);

export const useOverview = (everyMs: number = POLL_MS.usual): Read<Overview> =>
  useRead("GET /v1/overview", { query: { env: env.value } }, { everyMs });
