// SPDX-License-Identifier: Apache-2.0
// What does an API server need to know of network definitions?
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

const CRDS = join(import.meta.dirname, "../../../crds/networks");

/** The definition of NetworkAttachmentDefinition that is installed. */
export const NAD_DEFINITION = parse(
  readFileSync(join(CRDS, "k8s.cni.cncf.io_network-attachment-definitions.yaml"), "utf8"),
) as object;
