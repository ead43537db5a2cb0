// SPDX-License-Identifier: Apache-2.0
// The artifacts of a release, in the order in which they are made: the others need the images, and the Debian packages need the
// programs that the command line compiles.
import { makeChart } from "./chart.ts";
import { makeManifests } from "./cluster-manifests.ts";
import { makeCommandLine } from "./command-line.ts";
import { makeDebianPackages } from "./debian-package.ts";
import { makeAllImages } from "./images.ts";
import type { Artifact } from "./release.ts";

export const ARTIFACTS: readonly Artifact[] = [
  { name: "images", make: makeAllImages },
  { name: "manifests", make: makeManifests },
  { name: "chart", make: makeChart },
  { name: "command line", make: makeCommandLine },
  { name: "Debian packages", make: makeDebianPackages },
];
