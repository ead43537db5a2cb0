// SPDX-License-Identifier: Apache-2.0
// Examines the interfaces of a VM, one after another.
import { AppError } from "@patchbay/base";
import { ifacesOf } from "@patchbay/core/nics";
import type { DoctorReport } from "@patchbay/core/doctor";
import type { Context } from "../../command.ts";
import { examine } from "../../doctor/examine.ts";
import type { Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { printDoctorReports } from "../../print/doctor-report.ts";
import { withNamedTarget, type Target } from "../../session.ts";

function listIfaceNames({ vm, vmi }: Target): readonly string[] {
  const spec = vmi?.spec ?? vm?.spec.template.spec;
  return spec === undefined ? [] : ifacesOf(spec).map(({ name }) => name);
}

/** Prints where frames of a VM's interfaces are lost. @throws AppError with DOCTOR_FOUND_DEAD if frames are lost, KUBE_NOT_FOUND */
export async function examineVm(context: Context, { args }: Input): Promise<void> {
  const [name = "", ifaceName] = args;
  await withNamedTarget(context, { name, isVmi: false }, async (target, session) => {
    const ifaces = ifaceName === undefined ? listIfaceNames(target) : [ifaceName];
    const reports: DoctorReport[] = [];
    for (const iface of ifaces) reports.push(await examine(context, session, { target, iface }));
    const faults = reports.flatMap(({ interface: iface, firstDead }) =>
      firstDead === undefined ? [] : [`${iface} at ${firstDead}`],
    );
    await printResult(context, {
      table: () => printDoctorReports(reports),
      data: { interfaces: reports },
      names: reports.flatMap((report) =>
        report.firstDead === undefined ? [] : [`interface/${report.interface}`],
      ),
    });
    if (faults.length === 0) return;
    throw new AppError("DOCTOR_FOUND_DEAD", {
      dead: faults.length,
      all: reports.length,
      hops: faults.join(", "),
    });
  });
}
