// SPDX-License-Identifier: Apache-2.0
// Provenance of a release: an in-toto statement with SLSA's predicate. It contains no time, so that equal builds have
// equal statements. Source: in-toto attestation v1, SLSA provenance v1.

export interface Built {
  readonly version: string;
  readonly registry: string;
  readonly url: string;
  readonly architectures: readonly string[];
  readonly epoch: number;
  readonly commit: string;
  /** SHA-256 in hexadecimal by file name, of the artifacts. */
  readonly files: ReadonlyMap<string, string>;
  /** The same of inputs that fix the versions of packages, by path in the repository. */
  readonly locks: ReadonlyMap<string, string>;
}

const BUILD_TYPE = "https://patchbay.io/hack/release/v1";
const BUILDER = "https://patchbay.io/hack/release";
const SOURCE = "git+https://patchbay.io/patchbay";

function toSubjects(files: ReadonlyMap<string, string>) {
  return [...files].map(([name, sha256]) => ({ name, digest: { sha256 } }));
}

export function renderProvenance(built: Built): string {
  const { version, registry, url, architectures, epoch, commit, files, locks } = built;
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject: toSubjects(files),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: BUILD_TYPE,
        externalParameters: { version, registry, url, architectures },
        internalParameters: { SOURCE_DATE_EPOCH: epoch },
        resolvedDependencies: [
          { uri: `${SOURCE}@refs/tags/v${version}`, digest: { gitCommit: commit } },
          ...toSubjects(locks),
        ],
      },
      runDetails: { builder: { id: BUILDER } },
    },
  };
  return `${JSON.stringify(statement, undefined, 2)}\n`;
}
