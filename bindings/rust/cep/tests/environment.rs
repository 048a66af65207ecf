// SPDX-License-Identifier: Apache-2.0
//! What the environment does to options. One test: the environment is that of the whole process.

use cep::{Code, Options};

#[test]
fn the_environment_stops_a_program_with_the_default_options() {
    let folder = std::env::temp_dir().join(format!("cep-environment-{}", std::process::id()));
    let options = || Options::default().directory(&folder).rank(0).world_size(1);
    assert!(options().open().unwrap().enabled());
    std::fs::remove_dir_all(&folder).unwrap();

    std::env::set_var("CEP_ENABLE", "0");
    assert!(!options().open().unwrap().enabled());
    assert!(!folder.exists());
    assert!(Options::new().directory(&folder).rank(0).world_size(1).open().unwrap().enabled());
    std::fs::remove_dir_all(&folder).unwrap();

    std::env::set_var("CEP_ENABLE", "perhaps");
    let error = options().open().unwrap_err();
    assert_eq!(error.code, Code::EOPTION);
    assert!(error.message.contains("CEP_ENABLE"), "{error}");
}
