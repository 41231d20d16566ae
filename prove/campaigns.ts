// Every campaign there is.
import type { Campaign } from "./campaign.ts";
import { crash } from "./crash.ts";
import { feed } from "./feed.ts";
import { fuzz } from "./fuzz.ts";
import { idempotency } from "./idempotency.ts";
import { limits } from "./limits.ts";
import { races } from "./races.ts";
import { tamper } from "./tamper.ts";

export const campaigns: readonly Campaign[] = [crash, tamper, races, fuzz, limits, idempotency, feed];
