// Words for actions and outcomes, compared with those that the server and the verification library have.
import { expect, it } from "vitest";
import { actions, isDeploymentAction, type Action } from "../../../src/domain/core/events.ts";
import { denials } from "../../../src/sdk/denials.ts";
import { actionWords, typeWords } from "../../../src/web/dashboard/audit/actions.ts";
import { outcomeWords } from "../../../src/web/dashboard/usage/outcomes.ts";

it("has words for every action of a workspace and every denial", () => {
  const names = (Object.keys(actions) as Action[]).filter((action) => !isDeploymentAction(action));
  expect(names.filter((action) => actionWords(action) === action)).toEqual([]);
  expect(names.filter((action) => typeWords(actions[action]) === actions[action])).toEqual([]);
  expect(Object.keys(denials).filter((denial) => outcomeWords(denial) === denial)).toEqual([]);
  expect([actionWords("api_key.quarantined"), outcomeWords("quota_exceeded")]).toEqual([
    "API key quarantined",
    "Quota exceeded",
  ]);
});

it("shows unknown actions, types and outcomes as they are", () => {
  for (const action of ["widget.super_frobbed", "api_key.frobbed", "api_key.created.twice", "created"])
    expect(actionWords(action)).toBe(action);
  expect([typeWords("new_thing"), outcomeWords("brand_new_reason")]).toEqual(["new_thing", "brand_new_reason"]);
});
