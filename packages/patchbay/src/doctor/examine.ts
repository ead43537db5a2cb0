// SPDX-License-Identifier: Apache-2.0
// Asks the node of a VM at which hop frames of an interface die.
import { DOCTOR, type DoctorReport } from "@patchbay/core";
import type { Context } from "../command.ts";
import type { Session } from "../session.ts";
import { subresourcePath, type Target } from "../target.ts";

/** Of virt-api, which waits 10 s for the node; that takes 5 s at most. */
const TIMEOUT_MS = 15_000;

/** What is asked. */
export interface Examined {
  readonly target: Target;
  readonly iface: string;
}

/** @throws AppError with what kube's client throws */
export async function examine(
  context: Pick<Context, "signal">,
  session: Session,
  { target, iface }: Examined,
): Promise<DoctorReport> {
  const { namespace, name } = target;
  const vmi = { namespace, name, kind: "virtualmachineinstance" } as const;
  const path = `${subresourcePath(vmi, DOCTOR)}?interface=${encodeURIComponent(iface)}`;
  const { signal } = context;
  const asked = { method: "GET", path, timeoutMs: TIMEOUT_MS, signal } as const;
  const { text } = await session.client.requestRaw(asked);
  return JSON.parse(text) as DoctorReport; // what virt-api answers with 200
}
