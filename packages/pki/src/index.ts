// SPDX-License-Identifier: Apache-2.0
// The public door of pki.
export { createAuthority, loadAuthority, type Authority } from "./authority.ts";
export {
  endOfCertificate,
  issueCertificate,
  type CertificateRequest,
  type CertificateUsage,
  type IssuedCertificate,
} from "./certificate.ts";
export { createSigningKey } from "./encoding.ts";
export { kubeconfigText, type KubeconfigContent } from "./kubeconfig.ts";
