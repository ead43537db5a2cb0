// SPDX-License-Identifier: Apache-2.0
// What would become of all gathered changes of one VM's NICs together? One may take the port, or the name, that another one
// needs. Pure.
import { nicsPlaceOf } from "@patchbay/core/nics";
import { changedLists, listsOf } from "./commands.ts";
import { patchPath, PATCH_TYPE, type Ask, type Change } from "./changes.ts";
import type { Machine } from "./nic/plug.ts";
import { long } from "./shown.ts";
import { isRefusal, wordsOf, type Answer, type Verdict } from "./verdict.ts";

/** A change of a NIC. */
type NicChange = Extract<Change, { kind: "plug" | "move" | "pull" | "link" }>;

function isOfNic(change: Change): change is NicChange {
  return ["plug", "move", "pull", "link"].includes(change.kind);
}

/** The changes of NICs of the VM of that key. */
export function nicChangesOf(changes: readonly Change[], unit: string): readonly NicChange[] {
  return changes.filter(isOfNic).filter((change) => change.unit.key === unit);
}

/** One edit that does all of them; undefined where there are not several, or nothing to edit. */
export function togetherAsk(changes: readonly NicChange[], machine: Machine): Ask | undefined {
  const [first] = changes;
  const { spec, base } = nicsPlaceOf(machine);
  const { devices } = spec?.domain ?? {};
  if (first === undefined || changes.length < 2) return undefined;
  if (devices?.interfaces === undefined || spec?.networks === undefined) return undefined;
  const { interfaces, networks } = changes.reduce(changedLists, listsOf(machine));
  const paths = { nics: `${base}/domain/devices/interfaces`, networks: `${base}/networks` };
  return {
    method: "PATCH",
    path: patchPath(first.unit),
    body: [
      { op: "test", path: paths.nics, value: devices.interfaces },
      { op: "test", path: paths.networks, value: spec.networks },
      { op: "replace", path: paths.nics, value: interfaces },
      { op: "replace", path: paths.networks, value: networks },
    ],
    contentType: PATCH_TYPE,
  };
}

/**
 * What the answer to the dry run of all says beyond `alone`, the words on each. An edit of the whole is only warned of what
 * the requests for single NICs are refused for.
 */
export function togetherVerdict(answer: Answer, alone: readonly string[]): Verdict | undefined {
  const words = isRefusal(answer) ? [wordsOf(answer)] : answer.warnings.map(long);
  const news = words.filter((each) => !alone.some((known) => known.includes(each)));
  if (news.length === 0) return undefined;
  return { kind: "refused", text: `together with the other changes: ${news.join("; ")}` };
}
