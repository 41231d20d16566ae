// What a telemetry event may hold. The library leaves out or cuts what the server would refuse.

/** The most characters of a text. */
export const TEXT_MAX = {
  display_prefix: 128,
  method: 16,
  path: 2048,
  route: 512,
  denial_reason: 64,
  request_id: 128,
} as const;
export const NODE_ID = /^[A-Za-z0-9._:-]{1,128}$/;
export const SAMPLE_RATE_MIN = 0.0001;
export const COST_MAX = 1000;
export const TAGS_MAX = 4;
export const TAG_NAME = /^[a-z][a-z0-9_]{0,31}$/;
export const TAG_VALUE = /^[\x20-\x7e]{1,64}$/;
