// SPDX-License-Identifier: Apache-2.0
// Why a component ended, by its log. Pure.
import { parseFields, textOf } from "../data-dir/json.ts";

/** Members that hold a reason, the best first: of our logs, then of containerd's. */
const MEMBERS = ["reason", "error", "message", "msg"] as const;

/** The reason in the last line of a log; a line that is not JSON is the reason itself. Empty without one. */
export function reasonInLog(log: string | undefined): string {
  const last = (log ?? "").trimEnd().split("\n").at(-1) ?? "";
  const fields = parseFields(last);
  if (fields === undefined) return last;
  return MEMBERS.map((name) => textOf(fields, name)).find((text) => text !== "") ?? "";
}
