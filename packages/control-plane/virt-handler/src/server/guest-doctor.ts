// SPDX-License-Identifier: Apache-2.0
// Diagnoses where frames of a guest's interface are lost, from the node's facts, the guest agent and packet probes.
import { AppError, SHARE_KEYS, SharePool, toMs, tryAcquireAll, type Release } from "@patchbay/base";
import {
  diagnose,
  collectPathFacts,
  planProbes,
  type DoctorReport,
  type PathSources,
} from "@patchbay/core/doctor";
import { domainNameOf, type NodeVmFacts } from "@patchbay/core/vm";
import { findByName } from "@patchbay/core/nics";
import { printKey } from "@patchbay/kube";
import type { LauncherPod, NetnsHandle, NicDoctor, ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { LauncherContext } from "../reconcilers/vmi/steps/step-context.ts";
import { findGuest, type FoundGuest } from "./find-guest.ts";

export type ExamineGuest = (key: ObjectKey, iface: string) => Promise<DoctorReport>;

export interface NodeDoctor {
  readonly doctor: NicDoctor;
  readonly node: NetnsHandle;
}

/** Limits on concurrent examinations. Each uses one of libuv's four threads, which file operations also need. */
const EXAMINATION_LIMITS = { max: 3, share: 2 };
const EXAMINATION_TIMEOUT_MS = 5000;
const [PROBE_MAX_MS, PROBE_MIN_MS] = [4000, 1000];
/** Time that remains after the probes for the rest of the examination, in milliseconds. */
const RESERVED_MS = 600;

async function ignoreFailure<T>(query: Promise<T>): Promise<T | undefined> {
  try {
    return await query;
  } catch {
    return undefined;
  }
}

/** Queries the guest agent for links and, if the NIC offers a default route, for routes. Returns an empty object if no agent answers. */
async function queryGuest(
  { vmi, session }: LauncherContext & Pick<FoundGuest, "vmi">,
  { domain }: NodeVmFacts,
  offersDefaultRoute: boolean,
): Promise<Pick<PathSources, "answer" | "routes">> {
  if (domain?.running !== true || !domain.facts.agentConnected) return {};
  const { connection } = session;
  const answer = await ignoreFailure(connection.readGuestInterfaces(domainNameOf(vmi)));
  if (answer === undefined) return {};
  if (!offersDefaultRoute) return { answer };
  const routes = await ignoreFailure(connection.readGuestFacts(domainNameOf(vmi), "routes"));
  return { answer, ...(routes === undefined ? {} : { routes }) };
}

/** Returns the time since the guest's last start. Returns an empty object if the status lacks the time of the start. */
function measureRunning(
  { status }: FoundGuest["vmi"],
  nowMs: number,
): Pick<PathSources, "runningMs"> {
  const running = status?.phaseTransitionTimestamps?.findLast(({ phase }) => phase === "Running");
  const startMs = toMs(running?.phaseTransitionTimestamp);
  return startMs === undefined ? {} : { runningMs: nowMs - startMs };
}

interface ExaminedIface {
  readonly iface: string;
  readonly startedMs: number;
}

async function examine(
  launcher: LauncherContext & Pick<FoundGuest, "vmi">,
  { iface: name, startedMs }: ExaminedIface,
  { deps, doctor, node }: NodeDoctor & { readonly deps: Deps },
): Promise<DoctorReport> {
  const { vmi, pod, session } = launcher;
  const vmiKey = printKey({ namespace: vmi.metadata.namespace ?? "", name: vmi.metadata.name });
  const vmFacts = await observeNodeVm(vmi, launcher, deps);
  const iface = findByName(vmFacts.ifaces, name);
  if (iface === undefined) {
    throw new AppError("KUBE_NOT_FOUND", {
      resource: "interface",
      object: `${name} of ${vmiKey}`,
    });
  }
  const served = deps.guestServers.listServed(pod.uid);
  const localSources: PathSources = {
    iface,
    vmis: deps.vmis.list(),
    vmi,
    served,
    isPaused: vmFacts.domain?.isPaused === true,
    netns: session.launcher.netns.inode,
    ...measureRunning(vmi, deps.clock.now()),
  };
  const { offersDefaultRoute } = collectPathFacts(localSources);
  const sources: PathSources = {
    ...localSources,
    ...(await queryGuest(launcher, vmFacts, offersDefaultRoute)),
  };
  const facts = collectPathFacts(sources);
  const query = planProbes(sources, facts);
  const remainingMs = startedMs + EXAMINATION_TIMEOUT_MS - RESERVED_MS - deps.clock.monotonicMs();
  const withinMs = Math.max(PROBE_MIN_MS, Math.min(PROBE_MAX_MS, remainingMs));
  const probeRequest = query && { ...query, pod: session.launcher.netns, node, withinMs };
  const diagnosis = diagnose(
    probeRequest === undefined ? facts : { ...facts, observed: await doctor.examine(probeRequest) },
  );
  const milliseconds = Math.round(deps.clock.monotonicMs() - startedMs);
  return { vmi: vmiKey, interface: name, ...diagnosis, milliseconds };
}

async function withDeadline<T>(
  work: Promise<T>,
  { deps, timeoutError }: { readonly deps: Deps; readonly timeoutError: AppError },
): Promise<T> {
  const done = new AbortController();
  const timer = deps.clock.sleep(EXAMINATION_TIMEOUT_MS, done.signal).then(
    () => Promise.reject(timeoutError),
    () => new Promise<never>(() => undefined), // the work has finished
  );
  try {
    return await Promise.race([work, timer]);
  } finally {
    done.abort(new Error("it was answered"));
  }
}

/**
 * Creates the function that examines interfaces, each once at a time, and within {@link EXAMINATION_LIMITS}.
 * The function throws AppError with KUBE_NOT_FOUND, DOCTOR_BUSY, DOCTOR_LATE, LAUNCHER_UNREACHABLE, and the errors of sessions and probes.
 */
export function createExamineGuest(
  deps: Deps,
  nodeDoctor: NodeDoctor,
  wake: (key: string) => void,
): ExamineGuest {
  const namespaces = new SharePool(EXAMINATION_LIMITS);
  const ifaces = new SharePool({ max: EXAMINATION_LIMITS.max, share: 1 });
  const claim = (
    { uid, namespace }: LauncherPod,
    errorDetails: { readonly iface: string; readonly vmi: string },
  ): Release => {
    const ifaceKey = SHARE_KEYS.object({ namespace: uid, name: errorDetails.iface });
    const namespaceKey = SHARE_KEYS.namespace(namespace);
    const isExamined = ifaces.findShortage(ifaceKey) === "share";
    const shortage = namespaces.findShortage(namespaceKey);
    const release = tryAcquireAll([
      [ifaces, ifaceKey],
      [namespaces, namespaceKey],
    ]);
    if (release !== undefined) return release;
    const { max, share } = EXAMINATION_LIMITS;
    const busyReason =
      shortage === "share"
        ? `its node already examines ${String(share)} interfaces of its namespace`
        : `its node already examines ${String(max)} interfaces`;
    const reason = isExamined ? "it is being examined" : busyReason;
    throw new AppError("DOCTOR_BUSY", { ...errorDetails, reason });
  };
  return async (key, iface) => {
    const { vmi, pod, listener } = findGuest(key, deps, wake);
    const errorDetails = { iface, vmi: printKey(key) };
    const release = claim(pod, errorDetails);
    const startedMs = deps.clock.monotonicMs();
    const work = deps.sessions
      .use(pod, listener, (session) => {
        const launcher = { vmi, pod, role: "owner" as const, session, wake: listener.wake };
        return examine(launcher, { iface, startedMs }, { deps, ...nodeDoctor });
      })
      .finally(() => {
        release();
        // Wakes the VMI's reconcile loop, because the examination marked events as observed before the loop could handle them.
        listener.wake();
      });
    const timeoutError = new AppError("DOCTOR_LATE", {
      ...errorDetails,
      seconds: EXAMINATION_TIMEOUT_MS / 1000,
    });
    return withDeadline(work, { deps, timeoutError });
  };
}
