// The attacks of the campaign `neighbours`. A new one joins the mix by its line here.
import type { Attack } from "./attack.ts";
import { largeBodies } from "./bodies.ts";
import { bursts } from "./bursts.ts";
import { chainCalls } from "./chain-calls.ts";
import { silentConnections } from "./connections.ts";
import { forgedCounters } from "./counters.ts";
import { deletions } from "./deletions.ts";
import { endedCredentials } from "./ended-credentials.ts";
import { fleetReads } from "./fleet-reads.ts";
import { inviteFlood } from "./invites.ts";
import { keyTouches } from "./key-touches.ts";
import { loginFlood } from "./logins.ts";
import { manyCells } from "./many-cells.ts";
import { forgedNodes } from "./nodes.ts";
import { pipelinedBodies } from "./pipelined-bodies.ts";
import { pipelinedChecks, pipelinedClaims } from "./pipelines.ts";
import { longPolls } from "./polls.ts";
import { propagationWaits } from "./propagation-waits.ts";
import { testProjects } from "./quotas.ts";
import { silentReaders } from "./readers.ts";
import { refusals } from "./refusals.ts";
import { tenantWindows } from "./tenant-windows.ts";
import { waitingBodies } from "./waiting-bodies.ts";
import { wideLists } from "./wide-lists.ts";

export const attacks: readonly Attack[] = [
  endedCredentials,
  inviteFlood,
  loginFlood,
  longPolls,
  forgedCounters,
  forgedNodes,
  largeBodies,
  waitingBodies,
  pipelinedBodies,
  silentReaders,
  wideLists,
  deletions,
  pipelinedChecks,
  pipelinedClaims,
  bursts,
  testProjects,
  tenantWindows,
  keyTouches,
  manyCells,
  propagationWaits,
  fleetReads,
  silentConnections,
  chainCalls,
  refusals,
];
