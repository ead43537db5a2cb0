// SPDX-License-Identifier: Apache-2.0
// What has gone through the links of a network namespace.
import type { LinkCounts } from "../../metrics/traffic.ts";
import type { NetnsHandle } from "../namespaces.ts";

/** Reads counters; takes no program and no wait. */
export interface LinkCounters {
  /**
   * Counters of all links, in the kernel's order; of at most 1,000 of them. The descriptor may be closed as soon as this
   * was called.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  read(netns: NetnsHandle): Promise<readonly LinkCounts[]>;
}
