// SPDX-License-Identifier: Apache-2.0
import type { LinkCounts } from "../../metrics/traffic.ts";
import type { NetnsHandle } from "../namespaces.ts";

export interface LinkCounters {
  /** Returns the counters of at most 1,000 links, in the kernel's order. @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE */
  read(netns: NetnsHandle): Promise<readonly LinkCounts[]>;
}
