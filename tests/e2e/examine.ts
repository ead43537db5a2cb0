// SPDX-License-Identifier: Apache-2.0
// The doctor's result for a running guest's NIC.
import type { DoctorReport, HopName, HopReport } from "@patchbay/core/doctor";
import { eventually } from "@patchbay/support";
import { CHANGE_MS, machine } from "./machine.ts";

/** Exit code and output. */
export interface Examined {
  readonly code: number;
  readonly report: DoctorReport;
  /** The first dead hop with its reason; empty if frames pass. */
  readonly dead: string;
}

/** One hop's result. */
export function hopOf({ report }: Examined, name: HopName): HopReport | undefined {
  return report.hops.find(({ hop }) => hop === name);
}

/** Runs it like a user. */
export async function examine(vm: string, iface: string): Promise<Examined> {
  const text = ["--data-dir", machine.dataDir, "doctor", vm, iface, "-o", "json"];
  // A busy node reports it, or a timeout.
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
