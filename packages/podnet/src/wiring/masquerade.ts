// SPDX-License-Identifier: Apache-2.0
// A guest behind the pod's addresses.
import { AppError } from "@patchbay/core";
import type { Wirer } from "./wirer.ts";

export const MASQUERADE: Wirer<"masquerade"> = {
  isWired: () => false,
  wire: (_pod, { podInterfaceName }) =>
    Promise.reject(
      new AppError("PODNET_FAILED", { message: `${podInterfaceName}: masquerade is not built` }),
    ),
  unwire: () => Promise.resolve(),
};
