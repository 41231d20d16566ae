// Every campaign there is.
import type { Campaign } from "./campaign.ts";
import { races } from "./races.ts";
import { limits } from "./limits.ts";
import { tamper } from "./tamper.ts";

export const campaigns: readonly Campaign[] = [tamper, races, limits];
