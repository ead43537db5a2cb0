// SPDX-License-Identifier: Apache-2.0
// Requests a report from a VM's node about where an interface loses frames.
import { DOCTOR } from "@patchbay/core/guest";
import type { DoctorReport } from "@patchbay/core/doctor";
import type { Context } from "../command.ts";
import { type Session, subresourcePath, type Target } from "../session.ts";

/** Time limit of the request, in milliseconds. It exceeds the 10 s for which virt-api waits for the node. */
const TIMEOUT_MS = 15_000;

export interface ExaminedIface {
  readonly target: Target;
  readonly iface: string;
}

export async function examine(
  context: Pick<Context, "signal">,
  session: Session,
  { target, iface }: ExaminedIface,
): Promise<DoctorReport> {
  const { namespace, name } = target;
  const vmi = { namespace, name, kind: "virtualmachineinstance" } as const;
  const path = `${subresourcePath(vmi, DOCTOR)}?interface=${encodeURIComponent(iface)}`;
  const { signal } = context;
  const request = { method: "GET", path, timeoutMs: TIMEOUT_MS, signal } as const;
  const { text } = await session.client.requestRaw(request);
  return JSON.parse(text) as DoctorReport; // The cast is safe, because virt-api answers with a report.
}
