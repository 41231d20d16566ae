// The list of campaigns.
import { backupCampaign } from "./backup.ts";
import { bulk } from "./bulk.ts";
import type { Campaign } from "./campaign.ts";
import { cascade } from "./cascade.ts";
import { clock } from "./clock.ts";
import { copyCampaign } from "./copy.ts";
import { crash } from "./crash.ts";
import { diskFullCampaign } from "./disk-full.ts";
import { feed } from "./feed.ts";
import { fleetCampaign } from "./fleet.ts";
import { flipsCampaign } from "./flips.ts";
import { fuzz } from "./fuzz.ts";
import { idempotency } from "./idempotency.ts";
import { iofault } from "./iofault.ts";
import { limits } from "./limits.ts";
import { neighbours } from "./neighbours.ts";
import { powercut } from "./powercut.ts";
import { processes } from "./processes.ts";
import { quotasCampaign } from "./quotas.ts";
import { races } from "./races.ts";
import { seriesCampaign } from "./series.ts";
import { soak } from "./soak.ts";
import { tamper } from "./tamper.ts";
import { upgrade } from "./upgrade.ts";
import { wal } from "./wal.ts";

export const campaigns: readonly Campaign[] = [
  crash,
  powercut,
  iofault,
  diskFullCampaign,
  races,
  fuzz,
  limits,
  idempotency,
  feed,
  fleetCampaign,
  processes,
  tamper,
  backupCampaign,
  flipsCampaign,
  copyCampaign,
  bulk,
  cascade,
  neighbours,
  clock,
  seriesCampaign,
  quotasCampaign(1_000),
  wal,
  soak,
  upgrade,
];
