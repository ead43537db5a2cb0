// SPDX-License-Identifier: Apache-2.0
// patchbay doctor: checks an installation, or finds where frames of a VM's interfaces are lost.
import type { Command, Context } from "../../command.ts";
import { hasFlag, textOption, type Input } from "../../input.ts";
import type { DoctorReport } from "@patchbay/core/doctor";
import { toFindingJson, type Finding } from "../../doctor/finding.ts";
import { printResult } from "../../print/output.ts";
import { escapeLine } from "../../print/safe.ts";
import { readWanted, TARGET_FLAGS } from "./install.ts";

async function printExamination(context: Context, findings: readonly Finding[]): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { printFindings } = await import("../../print/doctor-report.ts");
  const wrong = findings.filter(({ verdict }) => verdict === "wrong");
  await printResult(context, {
    table: () => printFindings(findings),
    data: { findings: findings.map(toFindingJson) },
    names: wrong.map(({ check }) => check),
  });
  if (wrong.length > 0)
    throw new AppError("DOCTOR_FOUND", { wrong: wrong.length, all: findings.length });
}

async function examineInstallation(context: Context): Promise<void> {
  const { withSession } = await import("../../session.ts");
  const { collectFacts } = await import("../../doctor/collect.ts");
  const { judgeInstallation } = await import("../../doctor/judge.ts");
  await withSession(context, async (session) => {
    await printExamination(context, judgeInstallation(await collectFacts(context, session)));
  });
}

async function examineCluster(context: Context, input: Input): Promise<void> {
  const { withSession } = await import("../../session.ts");
  const { collectInstallFacts } = await import("../../doctor/before-install.ts");
  const { judgeBeforeInstall } = await import("../../doctor/checks/before-install.ts");
  await withSession(context, async ({ client, isPodAccount = false }) => {
    const wanted = await readWanted(client, input);
    const facts = await collectInstallFacts(client, wanted, isPodAccount);
    await printExamination(context, judgeBeforeInstall(facts));
  });
}

async function writeBundle(context: Context, input: Input): Promise<void> {
  const { Readable } = await import("node:stream");
  const { pipeline } = await import("node:stream/promises");
  const { printTime } = await import("@patchbay/kube");
  const { openNewFile } = await import("@patchbay/os");
  const { withSession } = await import("../../session.ts");
  const { collectBundle, packArchive } = await import("../../doctor/bundle/bundle.ts");
  await withSession(context, async (session) => {
    const time = printTime(session.clock.now()).slice(0, 19).replaceAll(":", "-");
    const file = textOption(input, "bundle") ?? `patchbay-bundle-${time}.tar.gz`;
    const bundle = await collectBundle(context, session, input.args[0]);
    const archive = await packArchive(bundle.files());
    await pipeline(Readable.from([archive]), openNewFile(file));
    const { missing } = bundle;
    await printResult(context, {
      table: () =>
        [
          `${file}: ${String(archive.length)} bytes; read it before you send it`,
          ...missing.map((line) => `missing: ${escapeLine(line)}`),
          "",
        ].join("\n"),
      data: { file, bytes: archive.length, missing },
      names: [file],
    });
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
  if (input.options["bundle"] !== undefined) {
    await writeBundle(context, input);
    return;
  }
  if (hasFlag(input, "beforeInstall")) {
    await examineCluster(context, input);
    return;
  }
  if (input.args.length === 0) {
    await examineInstallation(context);
    return;
  }
  await examineVm(context, input);
}

export const doctor: Command = {
  name: "doctor",
  args: ["[vm]", "[interface]"],
  values: ["vms", "interfaces"],
  summary:
    "Check the installation, or find where a VM's interfaces lose frames, and say what to do",
  flags: [
    {
      flags: "--before-install",
      description: "check whether the cluster is ready for patchbay install, with its flags below",
      conflicts: ["bundle"],
    },
    ...TARGET_FLAGS,
    {
      flags: "--bundle [file]",
      description:
        "write an archive for a bug report; known forms of secrets are removed (default: patchbay-bundle-TIME.tar.gz)",
    },
  ],
  run,
};
