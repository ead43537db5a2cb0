// SPDX-License-Identifier: Apache-2.0
// patchbay doctor: checks an installation, or finds where frames of a VM's interfaces are lost.
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import type { DoctorReport } from "@patchbay/core/doctor";
import type { Finding } from "../../doctor/finding.ts";
import { printResult } from "../../print/output.ts";

/** Converts a finding to its JSON output. In the output, `says` is the name of the field `message`. */
function toJson({ check, verdict, message, fix }: Finding): object {
  return { check, verdict, says: message, ...(fix !== undefined && { fix }) };
}

async function examineInstallation(context: Context): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { withSession } = await import("../../session.ts");
  const { collectFacts } = await import("../../doctor/collect.ts");
  const { judgeInstallation } = await import("../../doctor/judge.ts");
  const { printFindings } = await import("../../print/doctor-report.ts");
  await withSession(context, async (session) => {
    const findings = judgeInstallation(await collectFacts(context, session));
    await printResult(context, {
      table: () => printFindings(findings),
      data: { findings: findings.map(toJson) },
      names: findings.filter(({ verdict }) => verdict === "wrong").map(({ check }) => check),
    });
    const wrong = findings.filter(({ verdict }) => verdict === "wrong").length;
    if (wrong > 0) throw new AppError("DOCTOR_FOUND", { wrong, all: findings.length });
  });
}

/** Prints where frames of a VM's interfaces are lost. @throws AppError with KUBE_NOT_FOUND, or with DOCTOR_FOUND_DEAD if frames are lost */
async function examineVm(context: Context, { args }: Input): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { ifacesOf } = await import("@patchbay/core/nics");
  const { withNamedTarget } = await import("../../session.ts");
  const { examine } = await import("../../doctor/examine.ts");
  const { printDoctorReports } = await import("../../print/doctor-report.ts");
  const [name = "", ifaceName] = args;
  await withNamedTarget(context, { name, isVmi: false }, async (target, session) => {
    const spec = target.vmi?.spec ?? target.vm?.spec.template.spec;
    const names = spec === undefined ? [] : ifacesOf(spec).map((iface) => iface.name);
    const ifaces = ifaceName === undefined ? names : [ifaceName];
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

async function run(context: Context, input: Input): Promise<void> {
  if (input.args.length === 0) {
    await examineInstallation(context);
    return;
  }
  await examineVm(context, input);
}

/** Checks an installation or a VM without lasting changes. On a standalone machine, starts a test pod and deletes it. */
export const doctor: Command = {
  name: "doctor",
  args: ["[vm]", "[interface]"],
  values: ["vms", "interfaces"],
  summary:
    "Check the installation, or find where a VM's interfaces lose frames, and say what to do",
  flags: [],
  run,
};
