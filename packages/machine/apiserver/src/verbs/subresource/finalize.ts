// SPDX-License-Identifier: Apache-2.0
// PUT namespaces/finalize: the only way to change `spec.finalizers`.
import { parseObject } from "../../http/body.ts";
import { copyJson } from "../../objects/json.ts";
import type { Call, Reply } from "../call.ts";
import { changeObject } from "../change.ts";
import { toObject } from "../decode.ts";
import type { VerbDeps } from "../deps.ts";
import { checkAddress, checkVersion } from "../update.ts";

/** Replaces the namespace, its status apart; without finalizers it goes where it is being deleted. */
export async function finalizeNamespace(call: Call, deps: VerbDeps): Promise<Reply> {
  const given = toObject(call.kind, parseObject(call.body));
  checkAddress(call, given);
  const object = await changeObject(call, deps, {
    part: "all",
    edit: (current) => {
      checkVersion(call, given, current);
      return { ...copyJson(given), status: current["status"] };
    },
  });
  return { type: "object", code: 200, object };
}
