// SPDX-License-Identifier: Apache-2.0
// patchbay doctor: checks an installation, or finds where frames of a VM's interfaces are lost.
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";
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
  const { printFindings } = await import("../../print/findings.ts");
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

async function run(context: Context, input: Input): Promise<void> {
  if (input.args.length === 0) {
    await examineInstallation(context);
    return;
  }
  const { examineVm } = await import("./examine-vm.ts");
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
