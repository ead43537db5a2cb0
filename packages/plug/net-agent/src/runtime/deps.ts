// SPDX-License-Identifier: Apache-2.0
// What are calls of the container runtime answered with? With what the loop over pods has, and a few things more.
import type { Deps } from "../deps.ts";

/** What only this side needs. */
export interface RuntimeParts {
  /** Absolute path of the socket; its directory is made, for root alone. */
  readonly socketPath: string;
  readonly nodeName: string;
  /** In whose mounts the runtime's paths are; absent: in ours. */
  readonly hostProcess?: number;
  /** Is called once calls are answered. */
  readonly served: () => Promise<void>;
  /** Is called when that is to end. */
  readonly leaving: () => Promise<void>;
}

/** All of it. */
export interface RuntimeDeps extends Deps, RuntimeParts {
  readonly readDefaultNetwork: NonNullable<Deps["readDefaultNetwork"]>;
  /** Has the pod of that key looked at. */
  wake(key: string): void;
}
