// SPDX-License-Identifier: Apache-2.0
// What the doctor says of the way of a NIC of a running guest.
import type { DoctorReport, HopName, HopReport } from "@patchbay/core/doctor";
import { eventually } from "@patchbay/support";
import { CHANGE_MS, machine } from "./machine.ts";

/** Exit code, and what was said. */
export interface Examined {
  readonly code: number;
  readonly report: DoctorReport;
  /** The first dead hop with its reason; empty where frames pass. */
  readonly dead: string;
}

/** What is said of one hop. */
export function hopOf({ report }: Examined, name: HopName): HopReport | undefined {
  return report.hops.find(({ hop }) => hop === name);
}

/** Asks as a user does. */
export async function examine(vm: string, iface: string): Promise<Examined> {
  const text = ["--data-dir", machine.dataDir, "doctor", vm, iface, "-o", "json"];
  // A node that is busy says so, or that it was too late.
  return eventually(
    () => {
      const { code, stdout } = machine.try(["patchbay", ...text]);
      if (!stdout.startsWith("{")) return undefined;
      const { interfaces } = JSON.parse(stdout) as { interfaces: readonly DoctorReport[] };
      const [report] = interfaces;
      if (report === undefined) return undefined;
      const first = report.hops.find(({ hop }) => hop === report.firstDead);
      return { code, report, dead: `${first?.hop ?? ""} ${first?.reason ?? ""}`.trim() };
    },
    { withinMs: CHANGE_MS },
  );
}
