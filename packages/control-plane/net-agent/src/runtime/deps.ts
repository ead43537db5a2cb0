// SPDX-License-Identifier: Apache-2.0
// Dependencies of calls from the container runtime.
import type { Deps } from "../deps.ts";

export interface RuntimeOptions {
  /** Absolute path of the socket. Its directory is created, accessible to root only. */
  readonly socketPath: string;
  readonly nodeName: string;
  /** ID of a process in the runtime's mount namespace, where its paths are; unset if it is the agent's own. */
  readonly hostProcess?: number;
  /** Called once the server answers calls. */
  readonly onServing: () => Promise<void>;
  readonly onEnd: () => Promise<void>;
}

export interface RuntimeDeps extends Deps, RuntimeOptions {
  readonly readDefaultNetwork: NonNullable<Deps["readDefaultNetwork"]>;
  wake(key: string): void;
}
