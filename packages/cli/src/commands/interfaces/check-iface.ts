// SPDX-License-Identifier: Apache-2.0
// Plugs an interface, checks that frames pass, and unplugs it again if they do not.
import { AppError, messageOf } from "@patchbay/base";
import { ifacesOf } from "@patchbay/core/nics";
import type { DoctorReport } from "@patchbay/core/doctor";
import { performChange, describeChange, type ChangeResult } from "../../change/request.ts";
import type { Context } from "../../command.ts";
import { examine, type ExaminedIface } from "../../doctor/examine.ts";
import { hasFlag, numberOption, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { printDoctorReports } from "../../print/doctor-report.ts";
import { type Session, withTarget, type Target } from "../../session.ts";
import { ifaceChange, type IfaceRequest } from "./request-iface.ts";

/** Time that a guest has to start using a plugged NIC before lost frames count as a fault, milliseconds. */
const GRACE_MS = 15_000;
/** Time between two checks, milliseconds. */
const PAUSE_MS = 2_000;

interface CheckContext extends ExaminedIface {
  readonly session: Session;
  readonly context: Context;
  readonly input: Input;
}

interface CheckResult {
  readonly report: DoctorReport;
  readonly stands: "works" | "removed" | "kept" | "wasThere" | "notItsFault";
}

const OUTCOME_TEXTS: Readonly<Record<Exclude<CheckResult["stands"], "works">, string>> = {
  removed: "it was unplugged again",
  kept: "it was left plugged because of --keep",
  wasThere: "it was left plugged because it existed before",
  notItsFault: "it was left in place, because the fault is not in the guest or its pod",
};

async function waitForFrames({
  session,
  context,
  input,
  ...examined
}: CheckContext): Promise<DoctorReport> {
  const { clock } = session;
  const graceMs = Math.min(GRACE_MS, numberOption(input, "timeout", GRACE_MS));
  const untilMs = clock.monotonicMs() + graceMs;
  for (;;) {
    const report = await examine(context, session, examined);
    const remainingMs = untilMs - clock.monotonicMs();
    if (report.firstDead === undefined || remainingMs <= 0) return report;
    await clock.sleep(Math.min(PAUSE_MS, remainingMs), context.signal);
  }
}

/** @throws AppError with INTERFACE_NOT_CHECKED if the check fails; the interface stays */
async function checkFrames(checkContext: CheckContext): Promise<DoctorReport> {
  try {
    return await waitForFrames(checkContext);
  } catch (error) {
    const { iface, target, context } = checkContext;
    const reason = context.signal.aborted ? "interrupted" : messageOf(error);
    throw new AppError(
      "INTERFACE_NOT_CHECKED",
      { iface, vm: target.name, reason },
      { cause: error },
    );
  }
}

function isDeclared({ vm, vmi }: Target, iface: string): boolean {
  return [vm?.spec.template.spec, vmi?.spec].some(
    (spec) => spec !== undefined && ifacesOf(spec).some(({ name }) => name === iface),
  );
}

function print(context: Context, text: string): void {
  if (context.global.output === "table") context.out.write(text);
}

async function unplug(checkContext: CheckContext): Promise<void> {
  const { session, context, input, target, iface } = checkContext;
  const request = { subresource: "removeinterface", iface, body: { name: iface } } as const;
  const change = ifaceChange(request, target);
  const outcome = await performChange(session, context, { change, input, isWaiting: true });
  print(context, describeChange(change, outcome));
}

async function judge(checkContext: CheckContext): Promise<CheckResult> {
  const { context, input, target, iface } = checkContext;
  const report = await checkFrames(checkContext);
  print(context, printDoctorReports([report]));
  if (report.firstDead === undefined) return { report, stands: "works" };
  if (isDeclared(target, iface)) return { report, stands: "wasThere" };
  if (hasFlag(input, "keep")) return { report, stands: "kept" };
  if (!report.isUnplugReason) return { report, stands: "notItsFault" };
  await unplug(checkContext);
  return { report, stands: "removed" };
}

function toError({ report, stands }: CheckResult, { target }: CheckContext): AppError | undefined {
  const dead = report.hops.find(({ hop }) => hop === report.firstDead);
  if (dead === undefined || stands === "works") return undefined;
  return new AppError("INTERFACE_DOES_NOT_WORK", {
    iface: report.interface,
    vm: target.name,
    hop: dead.hop,
    why: dead.why,
    stands: OUTCOME_TEXTS[stands],
  });
}

async function plug(checkContext: CheckContext, request: IfaceRequest): Promise<void> {
  const { session, context, input, target } = checkContext;
  const change = ifaceChange(request, target);
  const plugged = await performChange(session, context, { change, input, isWaiting: true });
  const isDone = plugged.result === "done";
  const note = [plugged.note, "not checked"];
  const reported: ChangeResult = isDone ? plugged : { ...plugged, note: note.join("; ") };
  print(context, describeChange(change, reported));
  const outcome = isDone ? await judge(checkContext) : undefined;
  if (context.global.output !== "table") {
    const { kind, namespace, name } = target;
    const found = outcome && { check: outcome.report, stands: outcome.stands };
    await printResult(context, {
      table: () => "",
      data: {
        kind,
        namespace,
        name,
        action: "addinterface",
        ...change.fields,
        ...reported,
        ...found,
      },
      names: [`${kind}/${name}`],
    });
  }
  const failure = outcome && toError(outcome, checkContext);
  if (failure !== undefined) throw failure;
}

/**
 * Waits until the interface is plugged and checks where its frames are lost. Unplugs it if the fault is in the guest or its
 * pod, unless `--keep` is set or the interface existed before.
 * @throws AppError with INTERFACE_DOES_NOT_WORK, INTERFACE_NOT_CHECKED, and what the change throws
 */
export async function plugAndCheck(
  context: Context,
  input: Input,
  request: IfaceRequest,
): Promise<void> {
  await withTarget(context, input, (target, session) =>
    plug({ session, context, input, target, iface: request.iface }, request),
  );
}
