// SPDX-License-Identifier: Apache-2.0
// Durations of phases of VMIs and migrations. Source: KubeVirt 1.9 metrics/virt-controller perfscale_metrics.go.
import type {
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
  VmiPhase,
} from "@patchbay/api";

/** Upper bounds of the histogram buckets, in seconds. Source: KubeVirt PhaseTransitionTimeBuckets. */
const BUCKETS = [0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600];

interface PhaseHistogram {
  readonly help: string;
  readonly labelNames: readonly string[];
}

const HISTOGRAMS = {
  kubevirt_vmi_phase_transition_time_seconds: {
    help: "Time from the previous phase of a VMI to a phase.",
    labelNames: ["phase", "last_phase"],
  },
  kubevirt_vmi_phase_transition_time_from_creation_seconds: {
    help: "Time from the creation of a VMI to a phase.",
    labelNames: ["phase"],
  },
  kubevirt_vmi_phase_transition_time_from_deletion_seconds: {
    help: "Time from the request to delete a VMI to a phase.",
    labelNames: ["phase"],
  },
  kubevirt_vmi_migration_phase_transition_time_from_creation_seconds: {
    help: "Time from the creation of a migration to a phase.",
    labelNames: ["phase"],
  },
} as const satisfies Readonly<Record<string, PhaseHistogram>>;

type HistogramName = keyof typeof HISTOGRAMS;

interface PhaseObservation {
  readonly name: HistogramName;
  readonly labels: Readonly<Record<string, string>>;
  readonly seconds: number;
}

type Settings = { readonly name: string; readonly help: string; labelNames: string[] } & {
  buckets: number[];
};
type Observe = (labels: PhaseObservation["labels"], seconds: number) => void;

export function createPhaseRecorder(
  addHistogram: (settings: Settings) => Observe,
): (observations: readonly PhaseObservation[]) => void {
  const observers = new Map<string, Observe>(
    Object.entries(HISTOGRAMS).map(([name, { help, labelNames }]) => [
      name,
      addHistogram({ name, help, labelNames: [...labelNames], buckets: [...BUCKETS] }),
    ]),
  );
  return (observations) => {
    for (const { name, labels, seconds } of observations) observers.get(name)?.(labels, seconds);
  };
}

interface PhasedStatus {
  readonly phase?: string;
  readonly phaseTransitionTimestamps?: readonly {
    readonly phase: string;
    readonly phaseTransitionTimestamp: string;
  }[];
}

function findPhaseTime(status: PhasedStatus | undefined, phase: string | undefined) {
  const transitions = status?.phaseTransitionTimestamps ?? [];
  return transitions.find((entry) => entry.phase === phase)?.phaseTransitionTimestamp;
}

/** Returns undefined if a time is missing, or if `end` is before `start`. */
function secondsBetween(start: string | undefined, end: string | undefined): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  const ms = Date.parse(end ?? "") - Date.parse(start ?? "");
  return ms >= 0 ? ms / 1000 : undefined;
}

function toObservation(
  name: HistogramName,
  labels: PhaseObservation["labels"],
  seconds: number | undefined,
): readonly PhaseObservation[] {
  return seconds === undefined ? [] : [{ name, labels, seconds }];
}

/**
 * Measures how long the VMI took to reach its new phase: from its previous phase, from its creation and from its deletion request. Returns
 * an empty list if the phase is unchanged.
 */
export function observeVmiPhase(
  previous: VirtualMachineInstance,
  { metadata, status }: VirtualMachineInstance,
): readonly PhaseObservation[] {
  const lastPhase: VmiPhase | undefined = previous.status?.phase;
  const { phase } = status ?? {};
  if (phase === undefined || phase === lastPhase) return [];
  const reachedAt = findPhaseTime(status, phase);
  return [
    ...toObservation(
      "kubevirt_vmi_phase_transition_time_seconds",
      { phase, last_phase: lastPhase ?? "" },
      secondsBetween(findPhaseTime(status, lastPhase), reachedAt),
    ),
    ...toObservation(
      "kubevirt_vmi_phase_transition_time_from_creation_seconds",
      { phase },
      secondsBetween(metadata.creationTimestamp, reachedAt),
    ),
    ...toObservation(
      "kubevirt_vmi_phase_transition_time_from_deletion_seconds",
      { phase },
      secondsBetween(metadata.deletionTimestamp, reachedAt),
    ),
  ];
}

export function observeMigrationPhase(
  previous: VirtualMachineInstanceMigration,
  { metadata, status }: VirtualMachineInstanceMigration,
): readonly PhaseObservation[] {
  const { phase } = status ?? {};
  if (phase === undefined || phase === previous.status?.phase) return [];
  return toObservation(
    "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds",
    { phase },
    secondsBetween(metadata.creationTimestamp, findPhaseTime(status, phase)),
  );
}
