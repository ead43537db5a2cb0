// SPDX-License-Identifier: Apache-2.0
// Plugs an interface, checks whether frames pass, and unplugs the interface again if its guest or pod loses frames.
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

/** Time after the plug during which lost frames are not yet a fault, in milliseconds. */
const FIRST_FRAMES_TIMEOUT_MS = 15_000;
const CHECK_INTERVAL_MS = 2_000;

interface CheckContext extends ExaminedIface {
  readonly session: Session;
  readonly context: Context;
  readonly input: Input;
}

interface CheckResult {
  readonly report: DoctorReport;
  readonly result: "works" | "removed" | "kept" | "wasThere" | "notItsFault";
}

const RESULT_TEXTS: Readonly<Record<Exclude<CheckResult["result"], "works">, string>> = {
  removed: "it was unplugged again",
  kept: "it was left plugged because of --keep",
  wasThere: "it was left plugged because it existed before",
  notItsFault: "it was left in place, because the fault is not in the guest or its pod",
};

async function waitForFrames({
  session,
  context,
  input,
  ...examinedIface
}: CheckContext): Promise<DoctorReport> {
  const { clock } = session;
  const graceMs = Math.min(
    FIRST_FRAMES_TIMEOUT_MS,
    numberOption(input, "timeout", FIRST_FRAMES_TIMEOUT_MS),
  );
  const untilMs = clock.monotonicMs() + graceMs;
  for (;;) {
    const report = await examine(context, session, examinedIface);
    const remainingMs = untilMs - clock.monotonicMs();
    if (report.firstDead === undefined || remainingMs <= 0) return report;
    await clock.sleep(Math.min(CHECK_INTERVAL_MS, remainingMs), context.signal);
  }
}

/** Checks whether frames pass. @throws AppError with INTERFACE_NOT_CHECKED if the check is impossible; the interface stays plugged */
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
  const outcome = await performChange(session, context, { change, input, shouldWait: true });
  print(context, describeChange(change, outcome));
}

async function judge(checkContext: CheckContext): Promise<CheckResult> {
  const { context, input, target, iface } = checkContext;
  const report = await checkFrames(checkContext);
  print(context, printDoctorReports([report]));
  if (report.firstDead === undefined) return { report, result: "works" };
  if (isDeclared(target, iface)) return { report, result: "wasThere" };
  if (hasFlag(input, "keep")) return { report, result: "kept" };
  if (!report.isUnplugReason) return { report, result: "notItsFault" };
  await unplug(checkContext);
  return { report, result: "removed" };
}

function toError({ report, result }: CheckResult, { target }: CheckContext): AppError | undefined {
  const faultyHop = report.hops.find(({ hop }) => hop === report.firstDead);
  if (faultyHop === undefined || result === "works") return undefined;
  return new AppError("INTERFACE_DOES_NOT_WORK", {
    iface: report.interface,
    vm: target.name,
    hop: faultyHop.hop,
    why: faultyHop.why,
    stands: RESULT_TEXTS[result],
  });
}

async function plug(checkContext: CheckContext, request: IfaceRequest): Promise<void> {
  const { session, context, input, target } = checkContext;
  const change = ifaceChange(request, target);
  const plugged = await performChange(session, context, { change, input, shouldWait: true });
  const isDone = plugged.result === "done";
  const note = [plugged.note, "not checked"];
  const reportedChange: ChangeResult = isDone ? plugged : { ...plugged, note: note.join("; ") };
  print(context, describeChange(change, reportedChange));
  const outcome = isDone ? await judge(checkContext) : undefined;
  if (context.global.output !== "table") {
    const { kind, namespace, name } = target;
    const checkFields = outcome && { check: outcome.report, stands: outcome.result };
    await printResult(context, {
      table: () => "",
      data: {
        kind,
        namespace,
        name,
        action: "addinterface",
        ...change.fields,
        ...reportedChange,
        ...checkFields,
      },
      names: [`${kind}/${name}`],
    });
  }
  const failure = outcome && toError(outcome, checkContext);
  if (failure !== undefined) throw failure;
}

/**
 * Plugs the interface, and checks whether frames pass. If the guest or its pod loses frames, unplugs the interface again.
 * The interface stays plugged with `--keep`, or if it existed before the command.
 * @throws AppError with INTERFACE_DOES_NOT_WORK, INTERFACE_NOT_CHECKED, or the code of a failed plug or unplug
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
