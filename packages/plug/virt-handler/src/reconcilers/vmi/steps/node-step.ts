// SPDX-License-Identifier: Apache-2.0
// A step of a node plan, with how it is done and what is said when it fails.
import type { Hindrance } from "@patchbay/core";
import type { FailedStep, Step } from "@patchbay/kube";

/** What failed, or waits, and what is told of it. */
export type FailedNodeStep = FailedStep<NodeStep, Hindrance>;

/** A step that is left alone for a growing time when it fails. */
export interface NodeStep extends Step {
  /** Ifaces that hear of its failure; with one alone, what comes later for the same iface rests on it. */
  readonly ifaces: readonly string[];
  /** Whether it is a call on a device of the domain: another one, while the domain is busy or lost, would fare no better. */
  readonly isOnDevice: boolean;
  readonly perform: () => Promise<void>;
  /** What is told of a failure. */
  readonly explain: (error: unknown) => Hindrance;
  /** Puts a failure into the log. */
  readonly log: (failed: FailedNodeStep) => void;
  /** What it waits for, untried; undefined: nothing. */
  readonly wait?: () =>
    | { readonly shown: Hindrance; readonly pauseMs: number | undefined }
    | undefined;
}
