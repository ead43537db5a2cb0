// SPDX-License-Identifier: Apache-2.0
// patchbay doctor: looks whether an installation is whole, and says what to do where it is not.
import type { Command, Context } from "../../command.ts";
import { printResult } from "../../print/output.ts";

async function run(context: Context): Promise<void> {
  const { AppError } = await import("@patchbay/core");
  const { withSession } = await import("../../session.ts");
  const { collectFacts } = await import("../../doctor/collect.ts");
  const { judgeInstallation } = await import("../../doctor/judge.ts");
  const { printFindings } = await import("../../print/findings.ts");
  await withSession(context, async (session) => {
    const findings = judgeInstallation(await collectFacts(context, session));
    await printResult(context, {
      table: () => printFindings(findings),
      data: { findings },
      names: findings.filter(({ verdict }) => verdict === "wrong").map(({ check }) => check),
    });
    const wrong = findings.filter(({ verdict }) => verdict === "wrong").length;
    if (wrong > 0) throw new AppError("DOCTOR_FOUND", { wrong, all: findings.length });
  });
}

/** Nothing is changed: what is sent to be created is a dry run. */
export const doctor: Command = {
  name: "doctor",
  args: [],
  summary:
    "Look whether the machine's or the cluster's Patchbay is whole, and say what to do where it is not",
  flags: [],
  run,
};
