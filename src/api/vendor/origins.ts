// The origins on which a workspace's embed tokens may be used.
import { z } from "zod";
import { normalizeOrigin } from "../../kernel/origins.ts";

const Origin = z
  .string()
  .refine((value) => normalizeOrigin(value) !== null, { error: "must be an origin such as https://app.example.com" })
  .meta({ maxLength: 255, pattern: "^https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?$" });

export const EmbedOrigins = z
  .array(Origin)
  .max(20, { error: "must have at most 20 entries" })
  .refine((list) => new Set(list.map((origin) => normalizeOrigin(origin))).size === list.length, {
    error: "must not name an origin twice",
  });
