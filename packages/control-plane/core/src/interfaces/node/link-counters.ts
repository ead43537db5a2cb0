// SPDX-License-Identifier: Apache-2.0
import type { LinkCounts } from "../../metrics/traffic.ts";
import type { NetnsHandle } from "../namespaces.ts";

/** Reads counters without starting a program. */
export interface LinkCounters {
  /**
   * Counters of up to 1,000 links, in the kernel's order. The descriptor may be closed once the call was made.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  read(netns: NetnsHandle): Promise<readonly LinkCounts[]>;
}
