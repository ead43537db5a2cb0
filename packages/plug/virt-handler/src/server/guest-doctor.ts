// SPDX-License-Identifier: Apache-2.0
// Diagnoses where frames of a guest's interface get lost, from the node's facts, the guest agent and packet probes.
import {
  AppError,
  diagnose,
  domainNameOf,
  findByName,
  wayFactsOf,
  wayQuestionOf,
  type DoctorReport,
  type NodeVmFacts,
  type WaySources,
} from "@patchbay/core";
import { printKey } from "@patchbay/kube";
import type { NetnsHandle, NicDoctor, ObjectKey } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { Place } from "../reconcilers/vmi/steps/step-context.ts";
import { findGuest, type FoundGuest } from "./find-guest.ts";

export type ExamineGuest = (key: ObjectKey, iface: string) => Promise<DoctorReport>;

/** Examines network paths from the node's own namespace. */
export interface NodeDoctor {
  readonly doctor: NicDoctor;
  readonly node: NetnsHandle;
}

/** Maximum for the node: each examination uses one of libuv's four threads, which also serve files and links. */
const MAX_OF_NODE = 2;
/** Time limit of an examination, milliseconds. */
const WITHIN_MS = 5000;
/** Maximum and minimum time for the probes, milliseconds. */
const [LOOK_MS, LOOK_LEAST_MS] = [4000, 1000];
/** Time reserved for the work after the probes, and for kernel delays, milliseconds. */
const REST_MS = 600;

/** The agent's answer; undefined when it does not answer, as without an agent. */
async function hear<T>(question: Promise<T>): Promise<T | undefined> {
  try {
    return await question;
  } catch {
    return undefined;
  }
}

/** Queries the agent for its links and, if the NIC leads out of the node, for its routes. Empty without an answer. */
async function hearGuest(
  { vmi, session }: Place & Pick<FoundGuest, "vmi">,
  { domain }: NodeVmFacts,
  leadsOut: boolean,
): Promise<Pick<WaySources, "answer" | "routes">> {
  if (domain?.running !== true || !domain.facts.agentConnected) return {};
  const { connection } = session;
  const answer = await hear(connection.readGuestInterfaces(domainNameOf(vmi)));
  if (answer === undefined) return {};
  if (!leadsOut) return { answer };
  const routes = await hear(connection.readGuestFacts(domainNameOf(vmi), "routes"));
  return { answer, ...(routes === undefined ? {} : { routes }) };
}

interface Asked {
  readonly iface: string;
  readonly startedMs: number;
}

async function examine(
  place: Place & Pick<FoundGuest, "vmi">,
  { iface: name, startedMs }: Asked,
  { deps, doctor, node }: NodeDoctor & { readonly deps: Deps },
): Promise<DoctorReport> {
  const { vmi, pod, session } = place;
  const vmiKey = printKey({ namespace: vmi.metadata.namespace ?? "", name: vmi.metadata.name });
  const known = await observeNodeVm(vmi, place, deps);
  const iface = findByName(known.ifaces, name);
  if (iface === undefined) {
    throw new AppError("KUBE_NOT_FOUND", {
      resource: "interface",
      object: `${name} of ${vmiKey}`,
    });
  }
  const served = deps.guestServers.served(pod.uid);
  const unheard: WaySources = {
    iface,
    vmis: deps.vmis.list(),
    vmi,
    served,
    isPaused: known.domain?.isPaused === true,
  };
  const { leadsOut } = wayFactsOf(unheard);
  const sources: WaySources = { ...unheard, ...(await hearGuest(place, known, leadsOut)) };
  const facts = wayFactsOf(sources);
  const question = wayQuestionOf(sources, facts);
  const leftMs = startedMs + WITHIN_MS - REST_MS - deps.clock.monotonicMs();
  const withinMs = Math.max(LOOK_LEAST_MS, Math.min(LOOK_MS, leftMs));
  const nic = question && { ...question, pod: session.launcher.netns, node, withinMs };
  const said = diagnose(nic === undefined ? facts : { ...facts, seen: await doctor.examine(nic) });
  const milliseconds = Math.round(deps.clock.monotonicMs() - startedMs);
  return { vmi: vmiKey, interface: name, ...said, milliseconds };
}

/** Rejects with `late` at the time limit. */
async function inTime<T>(
  work: Promise<T>,
  { deps, late }: { readonly deps: Deps; readonly late: AppError },
): Promise<T> {
  const over = new AbortController();
  const timer = deps.clock.sleep(WITHIN_MS, over.signal).then(
    () => Promise.reject(late),
    () => new Promise<never>(() => undefined), // the work has finished
  );
  try {
    return await Promise.race([work, timer]);
  } finally {
    over.abort(new Error("it was answered"));
  }
}

/**
 * Creates the examination function. It allows one examination for each interface and a few for the node.
 * @throws AppError with KUBE_NOT_FOUND, DOCTOR_BUSY, DOCTOR_LATE, LAUNCHER_UNREACHABLE, and the errors of sessions and
 *   probes, all from the returned function
 */
export function createExamineGuest(
  deps: Deps,
  nodeDoctor: NodeDoctor,
  wake: (key: string) => void,
): ExamineGuest {
  const taken = new Set<string>();
  const enter = (place: string, about: { readonly iface: string; readonly vmi: string }): void => {
    const reason = taken.has(place)
      ? "it is being examined"
      : `its node examines ${String(MAX_OF_NODE)} others`;
    if (taken.has(place) || taken.size >= MAX_OF_NODE) {
      throw new AppError("DOCTOR_BUSY", { ...about, reason });
    }
    taken.add(place);
  };
  return async (key, iface) => {
    const { vmi, pod, listener } = findGuest(key, deps, wake);
    const about = { iface, vmi: printKey(key) };
    const place = `${pod.uid} ${iface}`;
    enter(place, about);
    const startedMs = deps.clock.monotonicMs();
    const work = deps.sessions
      .use(pod, listener, (session) => {
        const at = { vmi, pod, role: "owner" as const, session, wake: listener.wake };
        return examine(at, { iface, startedMs }, { deps, ...nodeDoctor });
      })
      .finally(() => {
        taken.delete(place);
        // The examination consumed events that the loop has not observed.
        listener.wake();
      });
    const late = new AppError("DOCTOR_LATE", { ...about, seconds: WITHIN_MS / 1000 });
    return inTime(work, { deps, late });
  };
}
